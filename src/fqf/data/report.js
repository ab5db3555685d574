// Tables with the class "sortable" get a button in every column's head. Empty cells stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.replaceChildren(button);
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const numbers = head.classList.contains("number");
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const first = numbers ? "descending" : "ascending";
      const other = numbers ? "ascending" : "descending";
      const order = before === first ? other : first;
      for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].sort((one, two) => {
        const [a, b] = [key(one), key(two)];
        if (a === "" || b === "") return (a === "") - (b === "");
        return sign * (numbers ? a - b : a.localeCompare(b, "en", { numeric: true }));
      });
      body.append(...rows);
    });
  });
}
