// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import "testing"

type step struct {
	name string
	run  func(*testing.T)
	// needed steps end the story when they fail: what follows stands on them.
	needed bool
}

// story is what is told on the clusters that are up.
func story() []step {
	if *layout == "three" {
		return []step{{"HubAndLeaves", hubAndLeaves, true}}
	}
	return []step{
		{"InstallsOnBothClusters", installsOnBothClusters, true},
		{"RefusesBadInput", refusesBadInput, false},
		{"Invitations", together(
			step{name: "TokenOnce", run: tokenOnce},
			step{name: "InvitationEndsWithItsToken", run: invitationEndsWithItsToken},
			step{name: "CSRForeignIdentityRejected", run: csrForeignIdentityRejected},
			step{name: "CSRExtraOrgRejected", run: csrExtraOrgRejected},
		), false},
		{"PeersByInvitation", peersByInvitation, true},
		{"VirtualNodeStandsForTheProvider", virtualNodeStandsForTheProvider, true},
		{"Tables", tables, false},
		{"WhilePeered", together(
			step{name: "RunsADeploymentNextDoor", run: runsADeploymentNextDoor},
			step{name: "NamesTwinsByStrategy", run: namesTwinsByStrategy},
			step{name: "PlacesPodsByStrategy", run: placesPodsByStrategy},
			step{name: "MovesMisplacedPods", run: movesMisplacedPods},
			step{name: "NamesakesAreLeftAlone", run: namesakesAreLeftAlone},
			step{name: "StatusComesBack", run: statusComesBack},
			step{name: "DeletionGoesBothWays", run: deletionGoesBothWays},
			step{name: "DeletedNamespacesLeaveNothing", run: deletedNamespacesLeaveNothing},
			step{name: "JobsRunExactlyOnce", run: jobsRunExactlyOnce},
			step{name: "TellsHowADeletedPodEnded", run: tellsHowADeletedPodEnded},
			step{name: "GracePeriodsReachTheProvider", run: gracePeriodsReachTheProvider},
			step{name: "NoTokenOfTheProvider", run: noTokenOfTheProvider},
			step{name: "ReflectsWhatPodsNeed", run: reflectsWhatPodsNeed},
			step{name: "ReflectsByteForByte", run: reflectsByteForByte},
			step{name: "ExportsServices", run: exportsServices},
			step{name: "RunsAnApplicationOfManyParts", run: runsAnApplicationOfManyParts},
			step{name: "DebugsPodsNextDoor", run: debugsPodsNextDoor},
			step{name: "ResizesPodsNextDoor", run: resizesPodsNextDoor},
			step{name: "TellsPodsOfHome", run: tellsPodsOfHome},
			step{name: "WarningsComeBack", run: warningsComeBack},
			step{name: "Logs", run: logs},
			step{name: "LogsTailZero", run: logsTailZero},
			step{name: "ExecCopiesStdin", run: execCopiesStdin},
			step{name: "ExecExitCode", run: execExitCode},
			step{name: "ExecResize", run: execResize},
			step{name: "Attach", run: attach},
			step{name: "PortForward", run: portForward},
			step{name: "VKAnonymousExecDenied", run: vkAnonymousExecDenied},
			step{name: "VKDelegatesSAR", run: vkDelegatesSAR},
			step{name: "PeerCannotWriteUnofferedNamespace", run: peerCannotWriteUnofferedNamespace},
			step{name: "ShadowPodCannotEscapeToNode", run: shadowPodCannotEscapeToNode},
		), false},
		{"ReflectsOtherKinds", reflectsOtherKinds, false},
		{"ScalesByUsage", scalesByUsage, false},
		{"EndpointsFollowTheirServices", endpointsFollowTheirServices, false},
		{"JoinsThePods", joinsThePods, false},
		{"VirtualNodeChangesItsPods", virtualNodeChangesItsPods, false},
		{"PodsTalkToTheirHome", podsTalkToTheirHome, false},
		{"LendsNoMoreThanIsGranted", lendsNoMoreThanIsGranted, false},
		{"StoresVolumes", storesVolumes, false},
		{"LendsExtendedResources", lendsExtendedResources, false},
		{"LendsNodeByNode", lendsNodeByNode, false},
		{"PeersBothWays", peersBothWays, false},
		{"DrainsTheVirtualNode", drainsTheVirtualNode, false},
		{"CordonsTheCluster", cordonsTheCluster, false},
		{"ANodeOfTheProviderDies", aNodeOfTheProviderDies, false},
		{"ProviderUnreachableForAMinute", providerUnreachableForAMinute, false},
		{"TheVirtualNodeIsLostForLong", theVirtualNodeIsLostForLong, false},
		{"KilledVirtualKubelet", killedVirtualKubelet, false},
		{"KilledControllerManager", killedControllerManager, false},
		{"KilledAPIServer", killedAPIServer, false},
		{"SurvivesChaos", survivesChaos, false},
		{"IdlesQuietly", idlesQuietly, false},
		{"RestoresTheStore", restoresTheStore, false},
		{"NamespaceDeletionResumesAfterOutage", namespaceDeletionResumesAfterOutage, false},
		{"UnoffloadBringsPodsHome", unoffloadBringsPodsHome, false},
		{"TokenNeverLogged", tokenNeverLogged, false},
		{"UnpeersWithoutATrace", unpeersWithoutATrace, false},
		{"UpgradesAndRollsBack", upgradesAndRollsBack, false},
		{"ProviderDecides", providerDecides, false},
		{"OrphansAreRemovedByTheProvider", orphansAreRemovedByTheProvider, false},
		{"PeersInBand", peersInBand, false},
		{"PeersOnceMore", peersByInvitation, false},
		{"UninstallIsRefusedWhilePeered", uninstallIsRefusedWhilePeered, false},
		{"UninstallsWithoutATrace", uninstallsWithoutATrace, false},
		{"TwoReplicasOnAnEtcdOfYourOwn", twoReplicasOnAnEtcdOfYourOwn, false},
	}
}

// TestFederation is the story, in order. Each step can be run again by its
// name on clusters that are kept.
func TestFederation(t *testing.T) {
	for _, step := range story() {
		passed := t.Run(step.name, func(t *testing.T) {
			t.Cleanup(func() { collect(t) })
			step.run(t)
		})
		if !passed && step.needed {
			t.Fatalf("%s failed, the story ends here", step.name)
		}
	}
}

// together runs steps that do not disturb each other at the same time.
func together(steps ...step) func(*testing.T) {
	return func(t *testing.T) {
		for _, step := range steps {
			t.Run(step.name, func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() { collect(t) })
				step.run(t)
			})
		}
	}
}
