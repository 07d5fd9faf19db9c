"""Scripts behind every figure that the documentation states; the README here lists them."""
