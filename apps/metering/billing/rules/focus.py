"""A statement in the columns of the FinOps Open Cost and Usage Specification (FOCUS) 1.2. Pure.

FOCUS's EffectiveCost is the amortised cost, which here is what is billed: nothing is bought in advance. The
price of what did work is ours and stands in the x_ columns, as FOCUS asks of a provider's own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.metering.billing.rules.pricing import STEP
from apps.metering.billing.rules.rounding import CENT
from apps.metering.specs import LineKind

VERSION = "1.2"
COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription",
    "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit",
    "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingQuantity", "PricingUnit", "ProviderName",
    "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType",
    "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuPriceId", "SubAccountId",
    "SubAccountName", "SubAccountType", "Tags", "x_EffectiveUseCost", "x_WasteCost", "x_HoardedCost",
    "x_ZombieCost", "x_IdleCost", "x_PartlyUsedCost", "x_UnknownCost", "x_Formula",
)  # fmt: skip
SERVICES = {
    LineKind.GPU: ("Compute", "GPU", "Virtual Machines"),
    LineKind.CPU: ("Compute", "CPU", "Virtual Machines"),
    LineKind.MEMORY: ("Compute", "Memory", "Virtual Machines"),
    LineKind.STORAGE: ("Storage", "Disks", "Block Storage"),
}
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
    """A statement's line with the names of what it is for; amounts to the cent, prices per hour."""

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


def tags_of(tags: Mapping[str, str]) -> str:
    """Tags as JSON, the same for the same tags."""
    return json.dumps(dict(tags), sort_keys=True)


def rows(account: Account, lines: Sequence[Charged]) -> list[list[Any]]:
    """One row per line, in the order of COLUMNS; None is null."""
    return [[_row(account, line).get(name) for name in COLUMNS] for line in lines]


def _row(account: Account, line: Charged) -> dict[str, Any]:
    return _who(account) | _what(line) | _much(line)


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
    the class Correction. Usage that is no correction has a price: where it changed meanwhile, the mean.
    """
    category, service, sub = SERVICES[line.about]
    sku = "/".join(part for part in (line.about.value, line.offer, line.capacity) if part)
    price = _unit_price(line, line.unit_price, line.amount)
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
        "SkuPriceId": None if price is None else f"{sku}@{price.normalize():f}",
        "Tags": line.tags,
    }


def _unit_price(line: Charged, known: Decimal | None, cost: Decimal) -> Decimal | None:
    """Per unit: the price that held all the time, else the mean, as where last units were charged whole; None
    for a correction.
    """
    if line.kind is LineKind.CORRECTION:
        return None
    if known is not None and abs(known * line.quantity - cost) <= CENT:
        return known
    return (cost / line.quantity).quantize(STEP) if line.quantity else Decimal(0)


def _much(line: Charged) -> dict[str, Any]:
    is_usage = line.kind is not LineKind.CORRECTION
    unit = UNITS.get(line.unit)
    billed = line.amount.quantize(CENT)
    # A closed refund of before list prices were kept with it has none.
    is_silent = line.kind is LineKind.REFUND and not line.listed
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
        "ConsumedQuantity": quantity,
        "ConsumedUnit": unit if is_usage else None,
        "x_EffectiveUseCost": line.parts.get("effective"),
        "x_WasteCost": line.parts.get("waste"),
        "x_HoardedCost": line.parts.get("hoarded"),
        "x_ZombieCost": line.parts.get("zombie"),
        "x_IdleCost": line.parts.get("idle"),
        "x_PartlyUsedCost": line.parts.get("partly"),
        "x_UnknownCost": line.parts.get("unknown"),
        "x_Formula": line.formula if line.parts else None,
    }
