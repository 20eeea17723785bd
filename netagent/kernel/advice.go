// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// advice is what to do about an error that an administrator of the node can
// mend.
type advice struct {
	cause error
	text  string
}

// advised adds the advice for its cause to an error.
func advised(err error, all ...advice) error {
	for _, a := range all {
		if errors.Is(err, a.cause) {
			return fmt.Errorf("%w: %s", err, a.text)
		}
	}
	return err
}

// portTaken is what is wrong where a socket cannot be opened.
func portTaken(port int) advice {
	text := fmt.Sprintf("UDP port %d of this node is somebody else's, ss -lunp tells whose: free it", port)
	if port != model.OverlayPort {
		text += ", or choose another one in the values of the chart"
	}
	return advice{unix.EADDRINUSE, text}
}

// noIptables is what is wrong where a program is missing.
func noIptables() advice {
	return advice{exec.ErrNotFound, "the image of this agent has to bring iptables, in both of its kinds"}
}

// adviceFor is what may be wrong where a link cannot be made.
func (n *Namespace) adviceFor(l model.Link) []advice {
	return []advice{
		{unix.EOPNOTSUPP, fmt.Sprintf("the kernel of this node has no links of that kind: load its module %s", l.Kind)},
		{unix.EEXIST, fmt.Sprintf("the VNI %d is that of %s already", l.VNI, n.withVNI(l.VNI))},
	}
}

// withVNI names the VXLANs with a VNI.
func (n *Namespace) withVNI(vni int) string {
	var names []string
	all, err := n.handle.LinkList()
	for _, l := range all {
		if vxlan, ok := l.(*netlink.Vxlan); ok && vxlan.VxlanId == vni {
			names = append(names, l.Attrs().Name)
		}
	}
	if err != nil || len(names) == 0 {
		return "another link"
	}
	return "link " + strings.Join(names, ", ")
}
