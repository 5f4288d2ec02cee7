// Runs before the first paint, so that a chosen theme never flashes the other one.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("penstock.theme");
  } catch {
    // Storage is switched off: follow the system.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
