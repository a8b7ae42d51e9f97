"""Money as people write and read it. Amounts are whole millionths of a USD everywhere but in what people see."""

from decimal import ROUND_CEILING, Decimal, InvalidOperation

from gatepost.core.errors import Invalid

MICRO = 1_000_000  # in one USD
PER = 1_000_000  # prices are for so many tokens
DEAREST = 10**15  # a thousand million USD: more is a mistake, and the sums stay far from 64 bits


def parse_usd(usd: str | float, field: str) -> int:
    """An amount as somebody wrote it. A fraction of a millionth counts as a whole one: nothing vanishes by rounding."""
    try:
        amount = Decimal(str(usd).strip().removeprefix("$"))
    except InvalidOperation:
        amount = Decimal("nan")
    if not amount.is_finite():
        raise Invalid(field, f"{str(usd)[:40]!r} is not an amount; write USD like 2.50")
    if amount < 0:
        raise Invalid(field, f"{usd} is negative; money is only ever spent")
    if amount * MICRO > DEAREST:
        raise Invalid(field, f"is more than {DEAREST // MICRO} USD")
    return int((amount * MICRO).to_integral_value(ROUND_CEILING))


def render_usd(micro: int) -> str:
    """`$1.50`, with as many digits as it takes."""
    whole, rest = divmod(micro, MICRO)
    digits = f"{rest:06d}".rstrip("0")
    return f"${whole}.{digits:0<2}"


def render_about_usd(micro: int) -> str:
    """For a glance: cents from a dollar on, a hundredth of one below. Something is never shown as nothing."""
    least = MICRO // 100 if micro >= MICRO else MICRO // 10_000
    near = (micro + least // 2) // least * least
    return render_usd(near or micro)


def to_usd_number(micro: int) -> float:
    """The same as a number, for JSON."""
    return micro / MICRO
