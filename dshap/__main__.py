"""`python -m dshap`: the command line."""

from dshap.cli import main

if __name__ == "__main__":
    main()
