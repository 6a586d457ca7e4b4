"""Make the picture of the report in README.md from the folder of its first command.

    python examples/graphormer_train/report_picture.py activity-model/report.html

needs Chromium, and writes report.png beside this script.
"""

import subprocess
import sys
from pathlib import Path

from PIL import Image

PICTURE = Path(__file__).with_name("report.png")
SIZE = "900,1215"  # down to the first figures


def main(report: Path) -> None:
    words = "chromium --headless --no-sandbox --disable-gpu --hide-scrollbars".split()
    words += [f"--window-size={SIZE}", f"--screenshot={PICTURE}"]
    subprocess.run([*words, report.resolve().as_uri()], check=True, timeout=120)
    picture = Image.open(PICTURE).convert("RGB").quantize(200)
    picture.save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
