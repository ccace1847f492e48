"""The picture of the front page: `python docs/_site/front_picture.py` runs its code."""

import pathlib
import re

import jax.numpy as jnp
import matplotlib.pyplot as plt

DOCS = pathlib.Path(__file__).parents[1]


def main() -> None:
    """Run the code of the front page and draw the effects of the schools."""
    page: dict = {}
    for code in re.findall(r"^```python\n(.*?)^```", (DOCS / "index.md").read_text(), re.S | re.M):
        exec(code, page)
    theta = page["result"].draws["theta"].reshape(-1, 8)
    order = jnp.argsort(page["y"])
    y, sigma = page["y"][order], page["sigma"][order]
    rows = jnp.arange(8)

    fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    ax.hlines(rows + 0.15, y - sigma, y + sigma, color="0.7")
    ax.plot(y, rows + 0.15, "x", color="0.5", label="reported, with its standard error")
    for probability, width in ((0.9, 1.5), (0.5, 5)):
        ends = jnp.array([(1 - probability) / 2, (1 + probability) / 2])
        low, high = jnp.quantile(theta[:, order], ends, axis=0)
        ax.hlines(rows - 0.15, low, high, color="teal", linewidth=width)
    mean = theta[:, order].mean(0)
    ax.plot(mean, rows - 0.15, "o", color="teal", mfc="w", label="posterior: mean, 50 %, 90 %")
    ax.axvline(page["result"].draws["mu"].mean(), color="teal", linestyle=":", linewidth=1)
    ax.set(xlabel="effect of coaching, points", yticks=rows, ylabel="school")
    ax.set_yticklabels([str(i) for i in order])
    ax.legend(loc="lower right", frameon=False)
    fig.savefig(DOCS / "front.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
