// Colour scheme: the system's, until the user chooses the other one. A classic script in the head: the page is never drawn in another scheme.

{
  const KEY = "aion.scheme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => document.documentElement.dataset.scheme;
  const isDark = () => (chosen() ? chosen() === "dark" : system.matches);
  const show = () => document.getElementById("scheme")?.setAttribute("aria-pressed", String(isDark()));
  const read = () => {
    const stored = localStorage.getItem(KEY);
    if (stored) document.documentElement.dataset.scheme = stored;
    else delete document.documentElement.dataset.scheme;
    show();
  };
  read();
  addEventListener("storage", read);
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("scheme")?.addEventListener("click", () => {
      const next = isDark() ? "light" : "dark";
      // The choice of the system's own scheme follows the system again.
      if ((next === "dark") === system.matches) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, next);
      read();
    });
  });
}
