// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"liqo.io/federation/hack/playground/state"
)

// By default the kernel permits 128 inotify instances for each user, which a few nodes use up. Their daemons then
// fail with errors that do not name the limit.
const (
	inotifyLimit  = "/proc/sys/fs/inotify/max_user_instances"
	inotifyNeeded = 8192
)

func savedLimit() string { return filepath.Join(state.Root, "inotify-max-user-instances") }

// raiseLimits raises the limit of inotify instances if it is too low, and saves its former value.
func raiseLimits() error {
	data, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return err
	}
	current := strings.TrimSpace(string(data))
	value, err := strconv.Atoi(current)
	if err != nil {
		return fmt.Errorf("%s: %w", inotifyLimit, err)
	}
	if value >= inotifyNeeded {
		return nil
	}
	if err := os.WriteFile(savedLimit(), []byte(current), 0o644); err != nil {
		return err
	}
	return os.WriteFile(inotifyLimit, []byte(strconv.Itoa(inotifyNeeded)), 0)
}

// restoreLimits restores the saved limit. The caller must ensure that no instance exists.
func restoreLimits() error {
	saved, err := os.ReadFile(savedLimit())
	if err == nil {
		err = os.WriteFile(inotifyLimit, saved, 0)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restoring %s: %w", inotifyLimit, err)
	}
	return os.RemoveAll(savedLimit())
}

// reservedElsewhere returns the subnets in the records of all other instances.
func reservedElsewhere(instance string) ([]netip.Prefix, error) {
	names, err := state.Instances()
	if err != nil {
		return nil, err
	}
	var reserved []netip.Prefix
	for _, name := range names {
		if name == instance {
			continue
		}
		i, err := state.Load(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		reserved = append(reserved, i.HostLink.Host.Masked())
		for _, c := range i.Clusters {
			reserved = append(reserved, c.NodeCIDR)
		}
	}
	return reserved, nil
}
