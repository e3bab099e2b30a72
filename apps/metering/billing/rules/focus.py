"""A bill in the columns of the FinOps Open Cost and Usage Specification (FOCUS) 1.2. Pure; docs/focus.md.

RULE: a row is of one day and one price, so that price x quantity is its cost; what the bill's rounding to the
cent adds is a row of its own, an Adjustment, so that rows sum to the bill.

FOCUS's EffectiveCost is the amortised cost, which here is what is billed: nothing is bought in advance. The
price of what did work is ours and stands in the x_ columns, as FOCUS asks of a provider's own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.metering.billing.rules.effective_split import INEFFICIENCY, RECOVERABLE
from apps.metering.billing.rules.pricing import STEP
from apps.metering.billing.rules.rounding import CENT
from apps.metering.specs import LineKind

VERSION = "1.2"
PRICED_IN = {
    "PricingCurrencyContractedUnitPrice": "ContractedUnitPrice",
    "PricingCurrencyEffectiveCost": "EffectiveCost",
    "PricingCurrencyListUnitPrice": "ListUnitPrice",
}
"""Columns in the currency of the prices, which is the bill's."""
COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription",
    "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit",
    "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", *PRICED_IN, "PricingQuantity", "PricingUnit",
    "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType",
    "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails",
    "SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType", "Tags", "x_EffectiveUseCost",
    "x_WasteCost", "x_RecoverableCost", "x_InefficiencyCost", "x_HoardedCost", "x_ZombieCost",
    "x_CrashLoopCost", "x_OversizedCost", "x_IdleCost", "x_PartlyUsedCost", "x_UnknownCost", "x_Formula",
    "x_GpuHours",
)  # fmt: skip
SERVICES = {
    LineKind.GPU: ("Compute", "GPU", "Virtual Machines", "Device Hours"),
    LineKind.CPU: ("Compute", "CPU", "Virtual Machines", "Core Hours"),
    LineKind.MEMORY: ("Compute", "Memory", "Virtual Machines", "Memory Hours"),
    LineKind.STORAGE: ("Storage", "Disks", "Block Storage", "Disk Hours"),
}
"""Category, name, subcategory and the meter of each kind."""
DETAILS = {
    LineKind.CPU: {"F_CoreCount": 1},
    LineKind.MEMORY: {"F_MemorySize": 1},
    LineKind.STORAGE: {"F_DiskSpace": 1},
}
"""SkuPriceDetails of what is no device: of one pricing unit."""
ROUNDING = "Rounding of the bill to the cent"
PREFIX = "allotment.dev/"
"""Of the tags that are the platform's own. A label cannot have it, so that none is overwritten."""
UNITS = {"device-hours": "Hours", "core-hours": "Core-Hours", "GiB-hours": "GiB-Hours"}
PROVIDER = "Allotment"


@dataclass(frozen=True)
class Account:
    """Whose statement it is, and for which month: [begins, ends) in UTC. The department pays."""

    department: str
    department_name: str
    tenant: str
    tenant_name: str
    currency: str
    number: str
    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class Charged:
    """What is charged, with the names of what it is for as they were; prices per hour. `consumed` is what was
    used, `quantity` what is charged for it: whole units. Prices of None changed: a line of before daily rows.
    """

    kind: LineKind
    about: LineKind
    description: str
    quantity: Decimal
    unit: str
    amount: Decimal
    listed: Decimal
    begins: datetime
    ends: datetime
    unit_price: Decimal | None
    list_price: Decimal | None
    parts: dict[str, Decimal]
    formula: str
    workload: str
    workload_name: str
    offer: str
    capacity: str
    tags: str
    details: str = ""
    consumed: Decimal | None = None
    gpu_hours: Decimal | None = None


def tags_of(own: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Tags as JSON, the same for the same tags. RULE: labels keep their keys; ours have our prefix, and come
    last, so that no label takes their place.
    """
    return _json({**labels, **{f"{PREFIX}{name}": value for name, value in own.items()}})


def details_of(kind: LineKind, **device: Any) -> str:
    """SkuPriceDetails: what is the same of all that has this SkuPriceId, per pricing unit."""
    return _json(DETAILS.get(kind, device))


def _json(found: Mapping[str, Any]) -> str:
    return json.dumps(dict(found), sort_keys=True)


def rows(account: Account, lines: Sequence[Charged], total: Decimal | None = None) -> list[list[Any]]:
    """One row per line, in the order of COLUMNS; None is null. Where a total is given, the rows sum to it."""
    found = [_row(account, line) for line in lines]
    rest = Decimal(0) if total is None else total - sum(each["BilledCost"] for each in found)
    if rest:
        found.append(_who(account) | _rounding(account, rest))
    return [[each.get(name) for name in COLUMNS] for each in found]


_COSTS = ("BilledCost", "EffectiveCost", "ContractedCost", "ListCost", "PricingCurrencyEffectiveCost")


def _rounding(account: Account, rest: Decimal) -> dict[str, Any]:
    return {
        **dict.fromkeys(_COSTS, rest),
        "ChargeCategory": "Adjustment",
        "ChargeDescription": ROUNDING,
        "ChargeFrequency": "One-Time",
        "ChargePeriodStart": account.begins,
        "ChargePeriodEnd": account.ends,
        "ServiceCategory": "Other",
        "ServiceName": PROVIDER,
        "ServiceSubcategory": "Other (Other)",
        "Tags": "{}",
    }


def _row(account: Account, line: Charged) -> dict[str, Any]:
    much = _much(line)
    return _who(account) | _what(line) | much | {name: much[same] for name, same in PRICED_IN.items()}


def _who(account: Account) -> dict[str, Any]:
    return {
        "BillingAccountId": account.department,
        "BillingAccountName": account.department_name,
        "BillingAccountType": "Department",
        "BillingCurrency": account.currency,
        "BillingPeriodStart": account.begins,
        "BillingPeriodEnd": account.ends,
        "InvoiceId": account.number,
        "InvoiceIssuerName": PROVIDER,
        "PricingCurrency": account.currency,
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "SubAccountId": account.tenant,
        "SubAccountName": account.tenant_name,
        "SubAccountType": "Tenant",
    }


def _what(line: Charged) -> dict[str, Any]:
    """RULE: a refund is negative usage of its period; a correction speaks of an earlier one and is usage of
    the class Correction. One SKU has a price per kind of capacity: neither name tells what it costs, since
    when, or for whom, so that both stay the same.
    """
    category, service, sub, meter = SERVICES[line.about]
    sku = "/".join(part for part in (line.about.value, line.offer) if part)
    return {
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if line.kind is LineKind.CORRECTION else None,
        "ChargeDescription": line.description,
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": line.begins,
        "ChargePeriodEnd": line.ends,
        "PricingCategory": "Dynamic" if line.capacity == "spot" else "Standard",
        "ResourceId": line.workload or None,
        "ResourceName": line.workload_name or None,
        "ResourceType": "Workload" if line.workload else None,
        "ServiceCategory": category,
        "ServiceName": service,
        "ServiceSubcategory": sub,
        "SkuId": sku,
        "SkuMeter": meter,
        "SkuPriceDetails": line.details or None,
        "SkuPriceId": f"{sku}/{line.capacity or 'any'}",
        "Tags": line.tags,
    }


def _unit_price(line: Charged, known: Decimal | None, cost: Decimal) -> Decimal | None:
    """Per unit: the price that held all the time, else the mean, as where last units were charged whole; None
    for a correction.
    """
    if line.kind is LineKind.CORRECTION:
        return None
    if known is not None and abs(known * line.quantity - cost) <= CENT / 2:
        return known
    return (cost / line.quantity).quantize(STEP) if line.quantity else Decimal(0)


def _much(line: Charged) -> dict[str, Any]:
    is_usage = line.kind is not LineKind.CORRECTION
    unit = UNITS.get(line.unit)
    billed = line.amount
    # A closed refund of before list prices were kept with it has none.
    is_silent = line.kind is LineKind.REFUND and not line.listed and line.list_price is None
    listed = line.listed if is_usage and not is_silent else billed
    quantity = line.quantity if is_usage else None
    return {
        "BilledCost": billed,
        "EffectiveCost": billed,
        "ContractedCost": billed,
        "ContractedUnitPrice": _unit_price(line, line.unit_price, line.amount),
        "ListCost": listed,
        "ListUnitPrice": _unit_price(line, line.list_price, listed),
        "PricingQuantity": quantity,
        "PricingUnit": unit if is_usage else None,
        "ConsumedQuantity": quantity if line.consumed is None else line.consumed,
        "ConsumedUnit": unit if is_usage else None,
        "x_EffectiveUseCost": line.parts.get("effective"),
        "x_WasteCost": _sum(line, (*RECOVERABLE, *INEFFICIENCY)),
        "x_RecoverableCost": _sum(line, RECOVERABLE),
        "x_InefficiencyCost": _sum(line, INEFFICIENCY),
        "x_HoardedCost": line.parts.get("hoarded"),
        "x_ZombieCost": line.parts.get("zombie"),
        "x_CrashLoopCost": line.parts.get("crashing"),
        "x_OversizedCost": line.parts.get("oversized"),
        "x_IdleCost": line.parts.get("idle"),
        "x_PartlyUsedCost": line.parts.get("partly"),
        "x_UnknownCost": line.parts.get("unknown"),
        "x_Formula": line.formula if line.parts else None,
        "x_GpuHours": line.gpu_hours,
    }


def _sum(line: Charged, causes: Sequence[str]) -> Decimal | None:
    return sum((line.parts.get(cause, Decimal(0)) for cause in causes), Decimal(0)) if line.parts else None
