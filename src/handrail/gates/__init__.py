"""What the kernel does at each gate, one file a gate.

step       a call on its way, and the problems its verdict makes
reading    understanding a call: tool, arguments, touches
asking     what a person is asked, and what the answer is bound to
approving  finding, asking for and spending an approval
desks      what a tool is given
record     what the journal is told, as data
writing    writing it down, and counting what was used
finish     what leaves the kernel: redacted, bounded, with evidence
"""
