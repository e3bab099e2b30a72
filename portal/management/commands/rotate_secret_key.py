"""`manage.py rotate_secret_key`: seals with the new secret key what was sealed with those before."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps import sealing
from portal.operate import rotation


class Command(BaseCommand):
    """Ends with status 1 where something is sealed with a key that is not among the settings."""

    help = "Seal anew what was sealed with keys of ALLOTMENT_OLD_SECRET_KEYS, and say what still needs them."

    def handle(self, *_args: Any, **_options: Any) -> None:
        done = rotation.rotate(timezone.now())
        self.stdout.write(f"Sealed anew: {rotation.in_words(done) or 'nothing'}.")
        lost = {each.words: each.unreadable for each in rotation.counts()}
        if any(lost.values()):
            raise CommandError(
                f"No secret key opens {rotation.in_words(lost)}. They were left as they are: put the key "
                "that sealed them into ALLOTMENT_OLD_SECRET_KEYS and run this again, or set them anew."
            )
        if needed := rotation.still_needed():
            self.stdout.write(f"The old keys are still needed by {rotation.in_words(needed)}.")
        elif sealing.former_keys():
            self.stdout.write("Nothing needs the old keys any more: take ALLOTMENT_OLD_SECRET_KEYS away.")
