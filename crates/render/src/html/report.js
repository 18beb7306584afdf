"use strict";
(function () {
  var host = document.getElementById("host"), shown = document.getElementById("shown");
  var boxes = Array.prototype.slice.call(document.querySelectorAll("#filter input[type=checkbox]"));
  var items = Array.prototype.slice.call(document.querySelectorAll(".item"));
  var roles = Array.prototype.slice.call(document.querySelectorAll("section.role"));
  var rows = Array.prototype.slice.call(document.querySelectorAll("tr[data-host]"));
  function has(names, text) {
    return !text || names.split("\n").some(function (n) { return n.toLowerCase().indexOf(text) >= 0; });
  }
  function apply() {
    var text = host.value.trim().toLowerCase(), on = {}, count = 0;
    boxes.forEach(function (b) { on[b.value] = b.checked; });
    items.forEach(function (i) {
      var ok = on[i.dataset.outcome] !== false && has(i.dataset.hosts, text);
      i.classList.toggle("hide", !ok);
      if (ok) { count += 1; }
    });
    rows.forEach(function (r) { r.classList.toggle("hide", !has(r.dataset.host, text)); });
    roles.forEach(function (r) { r.classList.toggle("hide", !r.querySelector(".item:not(.hide)")); });
    shown.textContent = count + " of " + items.length + " shown";
  }
  host.addEventListener("input", apply);
  boxes.forEach(function (b) { b.addEventListener("change", apply); });
  document.getElementById("open").addEventListener("click", function () {
    var all = document.querySelectorAll("details.item:not(.hide)"), open = !document.querySelector("details.item:not(.hide)[open]");
    Array.prototype.forEach.call(all, function (d) { d.open = open; });
  });
  document.body.classList.add("ready");
  apply();
})();
