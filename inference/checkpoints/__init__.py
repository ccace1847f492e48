"""Checkpoints: draws and states of runs in folders, from which killed runs go on.

`run_folder` is a folder with its files, `draw_files` are the files of draws, `state_writer` writes
states now and then, and `manifest` describes a run. `disk_recorder` records chains by these means,
`fit_folder` a fit.
"""
