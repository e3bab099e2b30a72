"""Django's admin as the records use it: its registry, lists, filters and sorting, and nothing that writes.

Its app is not installed, so it has no table, no templates and no files of its own (docs/decisions/0173).
"""

from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin, ShowFacets
from django.contrib.admin.exceptions import DisallowedModelAdminLookup, DisallowedModelAdminToField
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from apps.errors import NotFound
from apps.web.problems.refusals import BadParameter
from portal.pages.console.records import columns
from portal.pages.console.records.withheld import is_withheld, listed_models

MOST_ROWS = 5000
"""How far a list goes: whoever looks for more narrows it."""
AT_ONCE = 50
LONGEST_VALUE = 200
"""Characters of what is searched or filtered by."""
_OF_THE_LIST = frozenset({"q", "o", "p"})
_EXACT = frozenset({"", "exact", "isnull"})


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages of the first rows: a table of millions is not counted."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most MOST_ROWS."""
        rows: Any = self.object_list
        counted: int = rows.order_by().values("pk")[:MOST_ROWS].count()
        return counted


class RecordList(ChangeList):
    """A page of a list: the columns that it shows are all that is read."""

    def get_queryset(self, *args: Any, **how: Any) -> QuerySet[Any]:
        """See Django."""
        return super().get_queryset(*args, **how).only(*self.list_display)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """See Django; each column once, however often an address names it."""
        return list(dict.fromkeys(super().get_ordering(request, queryset)))

    def get_ordering_field(self, field_name: Any) -> Any:
        """See Django, which orders by any column that an address names."""
        return field_name if field_name in (self.sortable_by or ()) else None


class Records(ModelAdmin):  # type: ignore[type-arg]
    """One model's records. RULE: nobody adds, changes or deletes here."""

    actions = None
    list_per_page = AT_ONCE
    list_max_show_all = 0
    list_select_related = ()
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    paginator = BoundedPaginator

    def is_whole(self, request: HttpRequest) -> bool:
        """Whether the table is so small that a list may read all of it; counted once for a request."""
        known: bool | None = getattr(request, "is_record_table_whole", None)
        if known is None:
            known = self.model._base_manager.values("pk")[:MOST_ROWS].count() < MOST_ROWS
            request.is_record_table_whole = known  # type: ignore[attr-defined]
        return known

    def get_list_display(self, _request: HttpRequest) -> list[Any]:
        """See Django."""
        return columns.in_a_list(self.model)

    def get_sortable_by(self, request: HttpRequest) -> list[Any]:
        """See Django."""
        return columns.sortable(self.model, whole=self.is_whole(request))

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        """See Django."""
        return columns.filtered(self.model, whole=self.is_whole(request))

    def get_ordering(self, request: HttpRequest) -> list[Any]:
        """See Django."""
        return [columns.order(self.model, whole=self.is_whole(request))]

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """See Django."""
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """See Django."""
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """See Django."""
        return False

    def has_view_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        """See Django."""
        return self.admin_site.has_permission(request)

    def get_changelist(self, *_args: Any, **_how: Any) -> type[ChangeList]:
        """See Django."""
        return RecordList

    def get_queryset(self, _request: HttpRequest) -> QuerySet[Any]:
        """Every row, also those that the product's own lists leave out; what is withheld is never read."""
        hidden = [each.name for each in self.model._meta.concrete_fields if is_withheld(each)]
        rows: QuerySet[Any] = self.model._base_manager.get_queryset()
        return rows.defer(*hidden)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """See Django, which would look for parts of words in every row."""
        term = search_term.strip()
        if not term:
            return queryset, False
        fitting = columns.matching(self.model, term, whole=self.is_whole(request))
        return (queryset.none() if fitting is None else queryset.filter(fitting)), False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """See Django, which lets an address ask about any column, and so what a secret begins with."""
        name, _, how = lookup.partition("__")
        whole = request is not None and self.is_whole(request)
        field = columns.may_narrow(self.model, name, whole=whole)
        if field is None or how not in _EXACT:
            return False
        return how == "isnull" or columns.is_value(field, str(value))

    def listing(self, request: HttpRequest) -> ChangeList:
        """A page of its list. Raises BadParameter for what it cannot be narrowed by."""
        # A form sends its empty fields too.
        asked = request.GET.copy()
        for name, values in request.GET.lists():
            if values == [""]:
                del asked[name]
            elif len(values) > 1 or len(values[0]) > LONGEST_VALUE:
                raise BadParameter(name, f"It is given once, with {LONGEST_VALUE} characters at most.")
        request.GET = asked  # type: ignore[assignment]
        try:
            return self.get_changelist_instance(request)
        except (IncorrectLookupParameters, DisallowedModelAdminLookup, DisallowedModelAdminToField):
            wrong = next((name for name in asked if name not in _OF_THE_LIST), "p")
            raise BadParameter(wrong, "The list cannot be narrowed by it, or has no such page.") from None


class Site(AdminSite):
    """All records. It has no ways in and no addresses of its own: `record_views` answers."""

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether a platform engineer asks; `record_views` has looked before."""
        return getattr(getattr(request, "actor", None), "is_platform", False)


SITE = Site(name="records")
SITE.register(list(listed_models()), Records)


def records_of(app: str, model: str) -> Records:
    """The records of a model. Raises NotFound."""
    for known, records in SITE._registry.items():
        if (known._meta.app_label, known._meta.model_name) == (app, model) and isinstance(records, Records):
            return records
    raise NotFound
