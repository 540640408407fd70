# Draws the graphs on standard input in the format $1, one document behind the other.
# Ends with 127 in an image without Graphviz.
exec /usr/bin/dot "-T$1"
