"""Checkpoints: draws and states of runs in folders, from which killed runs go on.

`run_folder` holds the files of a folder, `draw_files` those of draws, `state_writer` writes states
now and then, and `manifest` is what a run is. `disk_recorder` joins them to chains, `fit_folder` to
a fit.
"""
