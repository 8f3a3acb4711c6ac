"""The local plan: a stratum evaluated in the driver's process."""
