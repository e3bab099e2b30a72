"""REST for the rules on groups of an organisation's sign-in, and for somebody's sessions."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import sessions
from apps.accounts.oidc import flows
from apps.accounts.selectors import person_for
from apps.accounts.specs import ScopeGroup
from apps.errors import FieldProblem, Invalid
from apps.tenants.models import GroupRule
from apps.tenants.people.selectors import group_rules
from apps.tenants.people.services import group_rules as keeping
from portal.api.base import references
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.people.group_rules_bodies import (
    EffectBody,
    EffectSerializer,
    RuleBody,
    RuleSerializer,
    SessionBody,
    effect_body,
    rule_body,
    session_body,
)


class RulesView(ApiView):
    """The rules that turn groups into rights; empty for all but platform engineers and auditors."""

    scope_group = ScopeGroup.PEOPLE
    lists = True
    sorts = ("-created_at",)

    @pages(RuleBody)
    def get(self, request: Request) -> Response:
        """Newest first."""
        return paginate(request, group_rules.rules_for(self.actor), rule_body)

    @takes(RuleSerializer)
    @answers(201, RuleBody, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """Make one. It counts from each person's next sign-in on."""

        def make() -> GroupRule:
            keeping.require_keeper(self.actor)
            wish = keeping.RuleWish(**RuleSerializer.checked(request.data))
            return keeping.make_rule(actor=self.actor, wish=wish, now=timezone.now())

        def answer(row: GroupRule) -> Response:
            return made(rule_body(row), f"/api/v1/group-rules/{row.pk}")

        return idempotent(request, lambda: written(request, make, answer))


class RuleView(ApiView):
    """One rule."""

    scope_group = ScopeGroup.PEOPLE

    @answers(200, RuleBody)
    def get(self, _request: Request, key: str) -> Response:
        """By id."""
        return Response(rule_body(group_rules.rule_for(self.actor, key)))

    @answers(204)
    def delete(self, request: Request, key: str) -> Response:
        """Remove it. What it gave is taken back from each person at the next sign-in."""

        def remove() -> None:
            row = group_rules.rule_for(self.actor, key)
            keeping.remove_rule(actor=self.actor, rule=row, now=timezone.now())

        return written(request, remove, lambda _: Response(status=204))


class EffectView(ApiView):
    """A dry run of a sign-in."""

    scope_group = ScopeGroup.PEOPLE
    write_parameters = ()
    keyed = False

    @named("group_rules_effect")
    @takes(EffectSerializer)
    @answers(200, EffectBody)
    def post(self, request: Request) -> Response:
        """What a sign-in with these groups would give and take. Changes nothing.

        Without groups those of the person's last sign-in; without a person, what somebody new would get.
        """
        keeping.require_reader(self.actor)
        asked = EffectSerializer.checked(request.data)
        provider, username = asked["provider"], asked["username"]
        if provider not in [each.slug for each in flows.providers()]:
            words = f"There is no provider {provider}."
            raise Invalid([FieldProblem("/provider", "reference_not_found", words)])
        user = username and references.found(
            "/username", lambda: person_for(self.actor, username), f"There is no user {username}."
        )
        groups = asked["groups"] or (group_rules.groups_of(user, provider) if user else [])
        return Response(effect_body(groups, group_rules.effect(provider, groups, user or None)))


class SessionsView(ApiView):
    """Where somebody is signed in."""

    scope_group = ScopeGroup.PEOPLE
    write_parameters = ()

    @named("user_sessions_list")
    @pages(SessionBody)
    def get(self, _request: Request, username: str) -> Response:
        """The last used first, all on one page."""
        person, now = person_for(self.actor, username), timezone.now()
        rows = sessions.sessions_for(self.actor, person, now).order_by("-seen_at")
        return Response({"items": [session_body(row) for row in rows], "next": None})

    @named("user_sessions_end")
    @answers(204)
    def delete(self, _request: Request, username: str) -> Response:
        """Sign the person out of every browser, at once. API tokens live on."""
        person = person_for(self.actor, username)
        sessions.end_all(actor=self.actor, user=person, now=timezone.now())
        return Response(status=204)
