# SPDX-License-Identifier: BSD-3-Clause
# The second machine: runs commands for the first, until it is switched off. Stands in for sshd (the link has no others).
cat >/run/serve <<'END'
#!/bin/bash
exec 2>/dev/console
read -r command
cd /
exec setsid -w sh -c "$command"
END
chmod +x /run/serve
exec busybox nc -ll -p 22 -e /run/serve
