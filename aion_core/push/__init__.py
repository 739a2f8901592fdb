"""What a webhook is told, and how: the guard, the signature, what is posted, and its delivery."""
