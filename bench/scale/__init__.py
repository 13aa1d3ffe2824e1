"""Ten thousand clients in one process, beside the machines that a published test gave them."""
