"""The frame of every `foreword bench …`: options, progress, tables, bars, one shape of JSON, plots."""
