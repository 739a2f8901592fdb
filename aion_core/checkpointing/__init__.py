"""What the checkpoint savers of `aws` and `memory` have in common."""
