// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"testing"
	"time"
)

func TestControllersAreSelectedByName(t *testing.T) {
	on, off := Controller{Name: "on"}, Controller{Name: "off", OffByDefault: true}
	for _, test := range []struct {
		selection []string
		on, off   bool
	}{
		{[]string{"*"}, true, false},
		{nil, false, false},
		{[]string{"*", "-on"}, false, false},
		{[]string{"-on", "*"}, false, false},
		{[]string{"*", "off"}, true, true},
		{[]string{"off"}, false, true},
	} {
		if gotOn, gotOff := selected(test.selection, on), selected(test.selection, off); gotOn != test.on ||
			gotOff != test.off {
			t.Errorf("%q selects on: %v, off: %v", test.selection, gotOn, gotOff)
		}
	}
}

func TestIdentitySignerIsOffByDefault(t *testing.T) {
	if names := offByDefault(); !slices.Equal(names, []string{"identity-signer"}) {
		t.Errorf("off by default: %v", names)
	}
	if errs := validateSelection([]string{"*", "-identity-signer"}); len(errs) > 0 {
		t.Errorf("%v", errs)
	}
	if errs := validateSelection([]string{"signer"}); len(errs) != 1 {
		t.Errorf("an unknown controller was accepted: %v", errs)
	}
}

func TestValidateReturnsAllErrors(t *testing.T) {
	options := NewOptions()
	options.ClusterName = "Rome!"
	options.Namespace = ""
	options.Policy.SharePercent = 0
	options.OrphanTTL = time.Second
	options.VirtualKubelet.PullPolicy = "Sometimes"
	options.Networking = "Round"
	options.APIAccess = "Home"
	options.RefusedEndpointCIDRs = []string{"10.96.0.0/12", "10.96.0.1", "10.1.2.3/16"}
	if errs := options.Validate(); len(errs) != 9 {
		t.Errorf("%d errors: %v", len(errs), errs)
	}
}
