"""What a message may be about. Pure."""

from apps.words import Word


class Kind(Word):
    """The occasion of a message; programs tell messages apart by it."""

    QUOTA_ASKED = "quota.asked", "Quota asked for"
    QUOTA_DECIDED = "quota.decided", "Quota request decided"
    QUOTA_SAID = "quota.said", "Answer to a quota request"
    QUOTA_MOVED = "quota.moved", "Quota moved"
    INVITATION_ASKED = "invitation.asked", "Invitation asked for"
    INVITATION_DECIDED = "invitation.decided", "Invitation decided"
    GRANT_GIVEN = "grant.given", "More for a while"
    GRANT_ENDING = "grant.ending", "A grant ends"
    BUDGET_SOFT = "budget.soft", "Budget runs low"
    BUDGET_HARD = "budget.hard", "Budget spent"
    QUEUE_HELD = "queue.held", "Queue held"
    WORKLOAD_WAITS = "workload.waits", "Why work waits"
    NODE_HANDOVER = "node.handover", "A node changes hands"
    QUEUE_RELEASED = "queue.released", "Queue released"
    FINDING_FOUND = "finding.found", "Finding"
    IDLE_WARNED = "idle.warned", "Stops soon"
    IDLE_TAKEN_BACK = "idle.taken_back", "Not stopped"
    BREAK_GLASS = "sign-in.break-glass", "Break-glass sign-in"
    SECOND_FACTOR = "sign-in.second-factor", "Second factor"
    SSH_KEY = "sign-in.ssh-key", "SSH key"
    VIEWED = "sign-in.viewed", "Looked at as you"
    IDLE_STOPPED = "idle.stopped", "Stopped idle"
