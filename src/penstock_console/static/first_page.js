// Begins to load the page of this address while the frame around it is still being loaded.

import { load, match, route } from "./lib/pages.js";

const first = match(route().segments);
// A failure is reported when the page is drawn.
if (first) load(first.module).catch(() => {});
