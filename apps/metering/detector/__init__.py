"""Judges one allocation by its telemetry: what it is, since when, what it wasted. Pure.

    trace    the allocation, its samples, and which of them can be trusted
    signals  what one sample proves: work, a token, nothing
    moments  spread and correlation, as fast as they can be had
    rhythm   whether faint activity comes from a person or from a machine
    usage    when the device was used, when it idled against its policy
    memory   lives of the processes, growth of the memory
    sizing   the memory and compute that are needed, and the smallest size that gives them
    rules    one rule per finding
    doubt    when too little was seen to say anything
    judge    the order of the rules and the verdict

docs/detectors.md says what each finding looks like to the hardware, and how often the detector is right.
"""
