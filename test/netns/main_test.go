// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaces is where the files of the namespaces are. It is seen by this
// process alone and goes with it, however that ends, and so do they.
const namespaces = "/mnt"

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare() error {
	for _, kind := range []string{"net", "mnt"} {
		ours, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return err
		}
		callers, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", os.Getppid(), kind))
		if err != nil {
			return err
		}
		if ours == callers {
			return fmt.Errorf("this would change the %s namespace that it was called from: run make test-netns", kind)
		}
	}
	if err := unix.Mount("tmpfs", namespaces, "tmpfs", 0, ""); err != nil {
		return err
	}
	return os.Setenv("XTABLES_LOCKFILE", namespaces+"/xtables.lock")
}
