"""Tags for every template: figures, icons, statuses, live parts. No queries, no rules."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django import template
from django.forms import BoundField
from django.template.context import Context
from django.template.defaulttags import CsrfTokenNode
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from apps.accounts.oidc import flows
from apps.quotas.catalogue.rules.drafts import OfferDraft
from apps.quotas.models import Offer
from apps.web.shapes import amounts, durations
from apps.words import ordinal
from portal.pages.parts.pictures import charts
from portal.pages.parts.quota_bars import Bar

register = template.Library()
register.filter("ordinal", ordinal)

NONE = "-"
UNKNOWN = mark_safe("unknown")
NOTE_ICONS = {"": "info", "good": "circle-check", "warn": "triangle-alert", "bad": "octagon-alert"}


@register.filter
def amount(value: Decimal | None) -> str:
    """`1,204.50`: to the cent for people; None, which is unknown, says so."""
    return UNKNOWN if value is None else mark_safe(amounts.to_the_cent(value))  # noqa: S308 - digits alone


@register.filter
def per_hour(value: Decimal | None, currency: str) -> str:
    """`1.20 EUR/h`; None, which is unknown, says so."""
    return "unknown" if value is None else f"{amounts.to_the_cent(value)} {currency}/h"


@register.filter
def each_hour(value: Decimal | None, offer: Offer) -> str:
    """What one of an offer costs per hour, without its currency: of a core, which costs little, to the last
    digit.
    """
    if value is None or not offer.is_cores:
        return "unknown" if value is None else amounts.to_the_cent(value)
    return f"{value.normalize():f}"


@register.filter
def quiet(bars: Iterable[Bar]) -> list[Bar]:
    """The quota bars of a tenant that nothing is used, lent or waited for of."""
    return [each for each in bars if each.is_quiet]


@register.filter
def gib(value: int | None) -> str:
    """Bytes as `19.6 GiB`; None says unknown."""
    return "unknown" if value is None else f"{value / 2**30:,.1f} GiB"


@register.filter
def size(offer: Offer | OfferDraft) -> str:
    """What one of an offer has: `80.0 GiB` of GPU memory, or `4.0 GiB with each core`."""
    is_cores = not offer.share_numerator
    return f"{gib(offer.memory_bytes)} with each core" if is_cores else gib(offer.gpu_memory_bytes)


BROWSERS = {"Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "FxiOS/": "Firefox", "CriOS/": "Chrome"}
BROWSERS |= {"Chrome/": "Chrome", "Safari/": "Safari"}
SYSTEMS = {"Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Windows": "Windows", "CrOS": "ChromeOS"}
SYSTEMS |= {"Mac OS X": "macOS", "Linux": "Linux"}
"""What says so in a User-Agent, the more exact first: Edge also says Chrome, and Chrome also says Safari."""


@register.filter
def browser(agent: str) -> str:
    """A User-Agent as people know it, such as "Firefox on Windows"; one that is not known, as it stands."""
    name = next((name for mark, name in BROWSERS.items() if mark in agent), "")
    system = next((name for mark, name in SYSTEMS.items() if mark in agent), "")
    if not name:
        return agent[:60] or "unknown"
    return f"{name} on {system}" if system else name


@register.filter
def provider(slug: str) -> str:
    """The name of an organisation's sign-in; of one that is set no more its slug."""
    return next((each.name for each in flows.providers() if each.slug == slug), slug)


@register.filter
def way_in(way: str) -> str:
    """How somebody signed in: `oidc:acme` is Acme, `password+app` is password and app."""
    kind, _, slug = way.partition(":")
    return provider(slug) if kind == "oidc" else way.replace("+", " and ")


@register.filter
def cores(millis: int) -> str:
    """Thousandths of a core as `1.5`."""
    return f"{Decimal(millis) / 1000:f}"


@register.filter
def span(seconds: float | None) -> str:
    """Seconds as `3 h 05 min`; None is no limit."""
    return "no limit" if seconds is None else durations.duration(seconds)


@register.simple_tag
@lru_cache(maxsize=4096)
def address(name: str, *of: object) -> str:
    """Where a named page is: as `url`, kept for tables that name the same pages again and again."""
    return reverse(name, args=of)


@register.simple_tag
def moment(value: datetime | str | None, now: datetime | None = None, none: str = NONE) -> str:
    """A clock time, with the day where it is not today's; all of it on hover. `none` stands for None."""
    if not value:
        return none
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    at = at.astimezone(UTC)
    today = (now or datetime.now(UTC)).astimezone(UTC)
    form = "%H:%M" if at.date() == today.date() else "%-d %b %H:%M"
    if today - at > timedelta(days=300):
        form = "%-d %b %Y"
    return _time(at, f"{at:{form}}")


@register.simple_tag
def since(value: datetime | str | None, now: datetime) -> str:
    """How long ago, with the moment on hover."""
    if not value:
        return NONE
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return _time(at, durations.duration(max(0.0, (now - at).total_seconds())))


def _time(at: datetime, words: str) -> SafeString:
    exact = f'datetime="{at.isoformat()}" title="{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"'
    return mark_safe(f"<time {exact}>{words}</time>")  # noqa: S308 - digits and units alone


@register.simple_tag
@lru_cache(maxsize=256)
def icon(name: str) -> str:
    """A symbol of the local sprite, never announced: the word stands beside it. A page shows a hundred."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("icons/sprite.svg"), name
    )


@register.simple_tag
def pill(tone: str, name: str, word: str) -> str:
    """A status: icon and word, never colour alone."""
    return format_html('<span class="status tone-{}">{}{}</span>', tone, icon(name), word)


@register.simple_tag
def link(to: str, words: str) -> str:
    """Words that lead somewhere; the words alone where nothing is there."""
    return format_html('<a href="{}">{}</a>', to, words) if to else conditional_escape(words)


@register.simple_tag
def swatch(kind: str, word: object) -> str:
    """A line of a picture's key."""
    return format_html(
        '<li><svg aria-hidden="true"><rect class="{}" width="100%" height="100%"/></svg>{}</li>', kind, word
    )


@register.simple_tag
def columns(*names: str) -> str:
    """Heads of columns."""
    return format_html_join("", '<th scope="col">{}</th>', ((name,) for name in names))


@register.simple_tag
def figures(*names: str) -> str:
    """Heads of columns of figures."""
    return format_html_join("", '<th scope="col" class="figure">{}</th>', ((name,) for name in names))


@register.simple_tag
def sorter(name: str, key: str, sort: str, addresses: Mapping[str, str]) -> str:
    """The head of a column that orders the table; pressed again it gives the usual order back."""
    if key != sort:
        return format_html('<th scope="col"><a href="{}">{}</a></th>', addresses[key], name)
    down = "descending" if key in ("cost", "waste") else "ascending"
    return format_html(
        '<th scope="col" aria-sort="{}"><a href="{}">{}{}</a></th>',
        down, addresses[""], name, icon("chevron-down" if down == "descending" else "chevron-up"),
    )  # fmt: skip


@register.simple_tag
def unseen_column(name: str) -> str:
    """The head of a column of buttons: only heard."""
    return format_html('<th scope="col"><span class="visually-hidden">{}</span></th>', name)


@register.simple_tag
def marked(pieces: Sequence[str]) -> SafeString:
    """A line in pieces, of which every second one was looked for."""
    drawn = (f"<mark>{escape(each)}</mark>" if at % 2 else escape(each) for at, each in enumerate(pieces))
    return mark_safe("".join(drawn))  # noqa: S308 - escaped above


@register.filter
def commands(text: str) -> SafeString:
    """A sentence of ours; what stands in backticks in it is shown as code."""
    pieces = enumerate(text.split("`"))
    drawn = (f"<code>{escape(piece)}</code>" if at % 2 else escape(piece) for at, piece in pieces)
    return mark_safe("".join(drawn))  # noqa: S308 - escaped above


@register.simple_tag
def copy(source: str, what: str) -> str:
    """A button that copies the text of the element with that id; `what` is only heard."""
    return format_html(
        '<button type="button" class="scripted" data-copy="{}">{}<span data-word>Copy</span>'
        '<span class="visually-hidden"> {}</span></button>',
        source,
        icon("copy"),
        what,
    )


@register.simple_tag
def computed(at: str) -> str:
    """The link to how a figure comes about."""
    return format_html('<a class="how" href="{}#{}">How this is computed</a>', address("how"), at)


@register.simple_block_tag
def note(content: SafeString, kind: str = "", name: str = "") -> str:
    """A sentence that stands out; its kind chooses colour and icon."""
    return format_html(
        '<p class="{}">{}<span>{}</span></p>',
        f"note {kind}".strip(),
        icon(name or NOTE_ICONS[kind]),
        mark_safe(content.strip()),  # noqa: S308 - the template has escaped it
    )


@register.simple_block_tag(takes_context=True)
def act(context: Context, content: SafeString, to: str, *of: object, **how: object) -> str:
    """A button that does one thing: posts to a named address, or to a path. Its content is its words.

    `kind` and `id` are the button's; `in_place` leaves the page to its live parts; `new_tab` leads to one
    that knows nothing of this; all else is sent.
    """
    own_tab = {"target": "_blank", "rel": "noopener"} if how.pop("new_tab", False) else {}
    button = {"class": how.pop("kind", ""), "id": how.pop("id", "")}
    posted = to if to.startswith("/") else address(to, *of)
    place = ' hx-post="{}" hx-disabled-elt="find button" hx-swap="none"'
    return format_html(
        '<form method="post" action="{}"{}{}>{}{}<button type="submit"{}>{}</button></form>',
        posted,
        format_html_join("", ' {}="{}"', own_tab.items()),
        format_html(place, posted) if how.pop("in_place", False) else "",
        CsrfTokenNode().render(context),
        format_html_join("", '<input type="hidden" name="{}" value="{}">', how.items()),
        format_html_join("", ' {}="{}"', (pair for pair in button.items() if pair[1])),
        mark_safe(content.strip()),  # noqa: S308 - as above
    )


@register.simple_tag
def countdown(deadline: datetime | None, now: datetime, verb: str = "stops") -> str:
    """The pill of portal.md's picture (g): clock, then time left, ticking in countdown.js."""
    if deadline is None:
        return ""
    left = charts.countdown(deadline, now=now)
    return format_html(
        '<span class="countdown {}" role="timer" data-deadline="{}">'
        "{}<span>{} {}<span data-left>{}</span></span></span>",
        left.loudness,
        deadline.isoformat(),
        icon("timer"),
        verb,
        moment(deadline, now),
        left.left,
    )


@register.simple_tag
@lru_cache(maxsize=1024)
def quota_bar(bar: charts.QuotaBar) -> SafeString:
    """Picture (b)."""
    return mark_safe(charts.quota_bar(bar))  # noqa: S308 - ElementTree escaped it


@register.simple_tag
def budget_bar(bar: charts.BudgetBar) -> SafeString:
    """The bar of a month's budget."""
    return mark_safe(charts.budget_bar(bar))  # noqa: S308 - ElementTree escaped it


@register.simple_tag
def mig_layout(blocks: list[charts.Block], slices: int = 8) -> SafeString:
    """Picture (c)."""
    return mark_safe(charts.mig_layout(blocks, slices=slices))  # noqa: S308 - ElementTree escaped it


@register.simple_tag(takes_context=True)
def live(context: Mapping[str, Any], name: str, every: int = 0, *, later: bool = False) -> str:
    """The attributes of a part that refreshes alone: id, partial, `?part=` and live event have one name. What
    no event tells of is asked for `every` so many seconds besides; of a part that comes `later` this is the
    place, and the page asks for it once it is there.

    Forms inside inherit none of it: a click would wait for the refresh and be lost with it.
    """
    request = context["request"]
    query = request.GET.copy()
    query["part"] = name
    return format_html(
        'id="{}" hx-get="{}?{}" hx-trigger="{}" hx-target="this" hx-swap="outerHTML" hx-disinherit="*"',
        name,
        request.path,
        query.urlencode(),
        # live.js looks for the word `live`: a comma behind it would be part of it.
        "load, live" if later else f"every {every}s, live" if every else "live",
    )


@register.simple_tag
def live_address(topics: list[str]) -> str:
    """Where live.js listens for these topics."""
    return f"/live/?{urlencode([('on', topic) for topic in topics])}"


@register.simple_tag
def describe(field: BoundField) -> str:
    """Ties an input to its hint and its error for assistive technology."""
    names = [f"{field.auto_id}_error"] * bool(field.errors) + [f"{field.auto_id}_hint"] * bool(
        field.help_text
    )
    attributes: dict[str, str | bool] = {"aria-describedby": " ".join(names)} if names else {}
    if field.errors:
        attributes["aria-invalid"] = "true"
    return str(field.as_widget(attrs=attributes))


@register.filter
def shown(field: BoundField) -> str:
    """What was typed or chosen, in words."""
    choices = dict(getattr(field.field, "choices", ()))
    value = field.value()
    return str(choices.get(value, value))
