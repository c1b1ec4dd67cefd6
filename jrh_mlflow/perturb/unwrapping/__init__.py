"""What writers put around their texts: taken off where that is certain, set aside where it is not."""
