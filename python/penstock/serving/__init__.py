"""What serves on sockets of the engine's without aiohttp: how to listen, log and stop, and native routes alone.

`penstock.web` puts an application on top of it, and `penstock.workers` processes of one. `penstock serve --origin` needs
no more than this.
"""
