"""`foreword bench exactness` and the studies that it and the tests share."""
