"""A target whose layers are shared by ranks: Ray places and watches them, torch.distributed connects them."""
