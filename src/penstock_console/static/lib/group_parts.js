// Lag in words and marks, for every page that shows groups.

import { html } from "../vendor/htm-preact.js";
import { duration, NONE, rate } from "./format.js";

// The change of the lag per second: growing is a warning.
export function Trend({ trend }) {
  if (trend === null || trend === undefined) return NONE;
  if (Math.abs(trend) < 0.05) return html`<span class="about">steady</span>`;
  return trend > 0 ? html`<span class="warning-text">↑ ${rate(trend)}/s</span>` : html`<span class="good-text">↓ ${rate(-trend)}/s</span>`;
}

export function clears(group) {
  if (group.lag === null) return NONE;
  if (Number(group.lag) === 0) return "caught up";
  return group.clear_s === null || group.clear_s === undefined ? NONE : `in ${duration(group.clear_s)}`;
}
