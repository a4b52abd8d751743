"""Run the command line as `python -m dshap`."""

from dshap.cli import main

if __name__ == "__main__":
    main()
