"""The command line of the YugabyteDB sample applications, read into a workload and its run."""
