// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package nearest

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestNearestName(t *testing.T) {
	known := []string{"incomingPolicy", "kinds", "name", "outgoingPolicy", "spec"}
	for _, test := range []struct{ name, unknown, want string }{
		{"a missing letter", "incomingPolcy", "incomingPolicy"},
		{"an additional letter", "kindss", "kinds"},
		{"another letter", "nane", "name"},
		{"swapped letters", "sepc", "spec"},
		{"another case", "IncomingPolicy", "incomingPolicy"},
		{"a third of the letters", "kindsxy", "kinds"},
		{"more than a third of the letters", "knsxyz", ""},
		{"a part of a name", "Policy", "incomingPolicy"},
		{"more than a name", "kindsOfObjects", "kinds"},
		{"a short part of a name", "pec", "spec"},
		{"a part that is too short", "ing", ""},
		{"another word", "colour", ""},
		{"an empty name", "", ""},
		{"a name of a megabyte", strings.Repeat("name", 1<<18), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Name(test.unknown, known); got != test.want {
				t.Errorf("the name nearest to %.40q is %q, want %q", test.unknown, got, test.want)
			}
		})
	}
	if got := Name("name", nil); got != "" {
		t.Errorf("%q is found among no names", got)
	}
}

func TestUnknownFlagNamesTheNearest(t *testing.T) {
	for _, test := range []struct{ argument, want string }{
		{"--policy-quta=1", "unknown flag: --policy-quta; did you mean --policy-quota?"},
		{"--policy_quta=1", "unknown flag: --policy_quta; did you mean --policy-quota?"},
		{"--colour", "unknown flag: --colour"},
		{"--hiden", "unknown flag: --hiden"},
		{"-x", "unknown shorthand flag: 'x' in -x"},
		{"--policy-quota=a", `invalid argument "a" for "--policy-quota" flag: strconv.ParseInt: parsing "a": invalid syntax`},
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.Int("policy-quota", 0, "")
		flags.Bool("hidden", false, "")
		if err := flags.MarkHidden("hidden"); err != nil {
			t.Fatal(err)
		}
		parsed := flags.Parse([]string{test.argument})
		err := FlagError(flags, parsed)
		if err == nil || err.Error() != test.want || !errors.Is(err, parsed) {
			t.Errorf("%s is answered with %v, want %s", test.argument, err, test.want)
		}
	}
}
