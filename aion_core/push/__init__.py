"""Push notifications: what is posted, when, in which order, and to which address it may be."""
