"""Hooks of MkDocs: pages from outside of docs/, links, lists, doctests and pictures of imports."""

import itertools
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]

# Files of the repository that are pages of the site, too.
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/results/quality.md": "quality.md",
}
STYLE = Path(__file__).with_name("style.css")

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LIST = re.compile(r"^(?!\s*(?:[-*]|\d+\.) )(\S.*)\n(?=(?:[-*]|1\.) )", re.MULTILINE)


def on_config(config):
    """List the pages of all families behind the table of distributions, by folder of the code."""
    stub = (ROOT / "distributions/__init__.pyi").read_text()
    groups = {folder: [] for folder in ("continuous", "discrete", "multivariate", "combinators")}
    for folder, name in re.findall(r"from distributions\.(\w+)\.\S+ import \(?\s*(\w+) as", stub):
        if (ROOT / f"docs/distributions/{name}.md").exists():
            groups[folder].append(f"distributions/{name}.md")
    (pages,) = (entry["Distributions"] for entry in config.nav if "Distributions" in entry)
    pages += [{folder.capitalize(): sorted(names)} for folder, names in groups.items()]
    return config


def on_files(files, config):
    """Add the pages of `OUTSIDE` and the style sheet."""
    for source, uri in OUTSIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "_site.css", abs_src_path=str(STYLE)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turn what GitHub understands into what Python-Markdown does."""
    source = next((s for s, uri in OUTSIDE.items() if uri == page.file.src_uri), None)
    folder = posixpath.dirname(source or f"docs/{page.file.src_uri}")
    here = posixpath.dirname(page.file.src_uri)

    def relink(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        if "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        uri = OUTSIDE.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(uri):
            return f"[{text}]({posixpath.relpath(uri, here or '.')}{anchor or ''})"
        if (ROOT / path).exists():
            return text if "`" in text else f"{text} (`{path}`)"
        return match[0]

    def outside_of_code(change):
        ends = [0, *(end for m in FENCED.finditer(markdown) for end in m.span()), len(markdown)]
        pieces = [markdown[a:b] for a, b in itertools.pairwise(ends)]
        return "".join(piece if i % 2 else change(piece) for i, piece in enumerate(pieces))

    if page.file.src_uri == "distributions/README.md":
        page.meta["hide"] = ["toc"]  # room for a table of six columns
    markdown = MERMAID.sub(lambda match: drawing(match[1]), markdown)
    markdown = outside_of_code(lambda text: LIST.sub(r"\1\n\n", LINK.sub(relink, text)))
    return markdown.replace("```python\n>>> ", "```pycon\n>>> ")


def drawing(graph: str) -> str:
    """The SVG of a graph whose lines are `a --> b`: boxes in layers, each below those it serves."""
    arrows = re.findall(r"(\w+) --> (\w+)", graph)
    nodes = list(dict.fromkeys(node for arrow in arrows for node in arrow))
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for above, below in arrows:
            depth[below] = max(depth[below], depth[above] + 1)
    layers = [[n for n in nodes if depth[n] == d] for d in range(max(depth.values()) + 1)]
    width = 150 * max(map(len, layers))
    at = {
        node: (width * (i + 0.5) / len(layer), 60 * d + 25)
        for d, layer in enumerate(layers)
        for i, node in enumerate(layer)
    }
    lines = [
        f'<line x1="{at[a][0]:g}" y1="{at[a][1] + 16:g}" x2="{at[b][0]:g}" y2="{at[b][1] - 20:g}" '
        'marker-end="url(#head)"/>'
        for a, b in arrows
    ]
    boxes = [
        f'<rect x="{x - 62:g}" y="{y - 16:g}" width="124" height="32" rx="4"/>'
        f'<text x="{x:g}" y="{y + 5:g}">{node}</text>'
        for node, (x, y) in at.items()
    ]
    head = '<defs><marker id="head" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="8" '
    head += 'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    size = f'viewBox="0 0 {width} {60 * len(layers)}" style="max-width:{width}px"'
    return f'<svg class="imports" {size}>{head}{"".join(lines + boxes)}</svg>'
