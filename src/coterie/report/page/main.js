// The page comes to life.

hints();
follow();
unfold();
if (rows) {
  const drawn = map();
  drawing(drawn);
  key();
  legend();
  search(drawn);
  selection(drawn);
  if (report.tree) tree();
}
names();
