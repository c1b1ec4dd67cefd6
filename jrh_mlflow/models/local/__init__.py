"""Models on this machine: fetched once, served on loopback to the direct transport, named `local/…`."""
