"""Writes digits.txt: scikit-learn's 1797 images of handwritten digits (Debian: apt-get install python3-sklearn).

Run as: /usr/bin/python3 tests/networks/make_digits.py
"""

from pathlib import Path

from sklearn.datasets import load_digits

GREYS = "0123456789abcdefg"  # 0 to 16

digits = load_digits()
lines = (
    "".join(GREYS[int(grey)] for grey in image) + f" {label}\n"
    for image, label in zip(digits.data, digits.target)
)
Path(__file__).with_name("digits.txt").write_text("".join(lines), encoding="ascii")
