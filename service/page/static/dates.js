// Dates whose day or month comes first, such as 31.12.2025. The server reads only ISO 8601. The command line reads a
// file in the same way (hinged/readers/dates.py).

export const ORDERS = { "day-first": "day first", "month-first": "month first" };
const CLOCK = String.raw`([01]?\d|2[0-3])(:[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?)`;
const DATE = new RegExp(String.raw`^(\d{1,2})([./-])(\d{1,2})\2([1-9]\d{3})(?:(?:[Tt]|,? )${CLOCK})?$`);

// A date in ISO 8601, with its time if it has one. Null if the text is no date in this order.
export function iso(text, order) {
  const [, first, , second, year, hour, rest] = DATE.exec(text.trim()) ?? [];
  if (first === undefined) return null;
  const [day, month] = order === "day-first" ? [first, second] : [second, first];
  const date = new Date(Date.UTC(year, month - 1, day));
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== Number(day)) return null;
  return `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}${hour === undefined ? "" : `T${hour.padStart(2, "0")}${rest}`}`;
}

// The orders in which all values are dates.
export const ordersOf = (values) => Object.keys(ORDERS).filter((order) => values.length > 0 && values.every((v) => typeof v === "string" && iso(v, order) !== null));

// The order in a file whose columns have these orders: `chosen`, or the only order that fits all columns. Null if none
// or both fit, or if the dates stay texts.
export function orderIn(columns, chosen) {
  if (chosen) return chosen in ORDERS ? chosen : null;
  const dated = columns.filter((orders) => orders.length > 0), fit = Object.keys(ORDERS).filter((order) => dated.every((orders) => orders.includes(order)));
  return dated.length > 0 && fit.length === 1 ? fit[0] : null;
}
