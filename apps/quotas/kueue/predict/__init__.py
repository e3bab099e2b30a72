"""What Kueue will do with a cluster's queues as they shall be: who starts, who waits, who is preempted.

Pure. Follows the scheduler of Kueue v0.19 with its default feature gates and without fair sharing: cohort
trees, nominal quota, borrowing and lending limits, flavors in order, both queueing strategies, priorities,
preemption within a queue and within the cohort. Knows nothing of devices, nodes or admission checks.
"""
