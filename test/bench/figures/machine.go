// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine returns the processors, memory, kernel and Go version of this machine in one line.
func Machine() string {
	var name unix.Utsname
	kernel := "unknown kernel"
	if err := unix.Uname(&name); err == nil {
		kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	memory := "unknown memory"
	if err := unix.Sysinfo(&info); err == nil {
		memory = fmt.Sprintf("%.0f GiB", float64(info.Totalram)*float64(info.Unit)/(1<<30))
	}
	model := "unknown processor"
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s, %s, %s", runtime.NumCPU(), model, memory, kernel, runtime.Version())
}
