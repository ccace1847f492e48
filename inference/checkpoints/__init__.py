"""Checkpoints: draws and states of runs in folders, from which killed runs go on.

`run_folder` holds the files of a folder, `draw_files` those of draws, `manifest` what a run is, and
`disk_recorder` joins them to a run.
"""
