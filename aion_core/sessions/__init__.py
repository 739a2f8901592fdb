"""ADK's session service over stored records."""
