"""Style of every figure."""

from matplotlib import rcParamsDefault

# In place of a style in a matplotlibrc, which may lie in the current folder. A name may
# have a $.
FIGURE_STYLE = {**rcParamsDefault, "text.parse_math": False}
