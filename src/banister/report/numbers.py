"""How figures are written, on the page and in the terminal."""

from __future__ import annotations


def number(value: float | None, digits: int = 3) -> str:
    """A figure as people write it: the digits that matter, no exponent where none is needed.

    Examples:
        >>> [number(x) for x in (0, 0.0001234, 0.25, 12.345, 1234.5, 123456.0)]
        ['0', '1.2e-04', '0.25', '12.3', '1,234', '123,456']
    """
    if value is None or value != value:  # NaN
        return "–"
    size = abs(value)
    if size < 1e-12:  # what rounding leaves of nothing
        return "0"
    if size < 1e-3:
        return f"{value:.{max(digits - 2, 0)}e}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.{digits}g}'):g}"
