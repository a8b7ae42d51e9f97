# Before each brief: the first lines of what lies in inbox/, as one line of JSON. What was read is put aside.
set -e
mkdir -p seen
new=""
for file in inbox/*.txt; do
  [ -e "$file" ] || continue
  line=$(head -n 1 "$file" | tr -d '\000-\037"\\')
  new="${new:+$new; }$line"
  mv "$file" seen/
done
if [ -z "$new" ]; then
  echo '{"wakeAgent": false}'
else
  printf '{"wakeAgent": true, "data": "%s"}\n' "$new"
fi
